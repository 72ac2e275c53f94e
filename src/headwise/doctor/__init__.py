"""What is wrong with this machine, or with this folder, and what would help."""

from headwise.doctor.check import FAILED as FAILED
from headwise.doctor.check import NOTE as NOTE
from headwise.doctor.check import OK as OK
from headwise.doctor.check import SKIPPED as SKIPPED
from headwise.doctor.check import Finding as Finding
from headwise.doctor.folder import look_at_folder as look_at_folder
from headwise.doctor.machine import look_at_machine as look_at_machine
