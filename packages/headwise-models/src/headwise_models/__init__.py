"""Translation models for headwise; each folder beside this file is one."""
