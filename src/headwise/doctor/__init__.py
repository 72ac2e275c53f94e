"""What is wrong with this machine, or with this folder, and what would help."""

from headwise.doctor.finding import FAILED as FAILED
from headwise.doctor.finding import NOTE as NOTE
from headwise.doctor.finding import OK as OK
from headwise.doctor.finding import SKIPPED as SKIPPED
from headwise.doctor.finding import Finding as Finding
from headwise.doctor.folder import look_at_folder as look_at_folder
from headwise.doctor.machine import look_at_machine as look_at_machine
