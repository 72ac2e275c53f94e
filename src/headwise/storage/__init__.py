"""Crash-safe files and folders: written atomically, verified when read.

A folder is written under a temporary name; every file is synced, a manifest with sizes
and SHA-256 added, everything read back, and the folder renamed. So a folder under its
final name is complete, or was damaged later, and then ``verify`` names the file.

disk       fsync, atomic renames, leftovers of killed processes
files      single files: text, JSON, binary
manifests  lists of the files of a folder with SHA-256
folders    atomic creation, replacement and deletion of folders
"""

from headwise.storage.disk import make_folder as make_folder
from headwise.storage.disk import remove_leftovers as remove_leftovers
from headwise.storage.disk import resource_error as resource_error
from headwise.storage.disk import restore_replaced as restore_replaced
from headwise.storage.disk import sync as sync
from headwise.storage.files import check_writable as check_writable
from headwise.storage.files import read_json as read_json
from headwise.storage.files import sha256 as sha256
from headwise.storage.files import write_bytes as write_bytes
from headwise.storage.files import write_json as write_json
from headwise.storage.files import write_pieces as write_pieces
from headwise.storage.files import write_text as write_text
from headwise.storage.folders import DAMAGED as DAMAGED
from headwise.storage.folders import check_replaceable as check_replaceable
from headwise.storage.folders import new_folder as new_folder
from headwise.storage.folders import remove_folder as remove_folder
from headwise.storage.folders import set_aside as set_aside
from headwise.storage.folders import set_aside_foreign as set_aside_foreign
from headwise.storage.manifests import MANIFEST as MANIFEST
from headwise.storage.manifests import NewerFormat as NewerFormat
from headwise.storage.manifests import damaged_files as damaged_files
from headwise.storage.manifests import read_manifest as read_manifest
from headwise.storage.manifests import verify as verify
