"""Checks of this machine, a model folder or a run, each with advice."""

from headwise.doctor.check import FAILED as FAILED
from headwise.doctor.check import NOTE as NOTE
from headwise.doctor.check import OK as OK
from headwise.doctor.check import SKIPPED as SKIPPED
from headwise.doctor.check import Check as Check
from headwise.doctor.folder_checks import check_folder as check_folder
from headwise.doctor.machine_checks import check_machine as check_machine
