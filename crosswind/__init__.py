"""Crosswind as one program, made of the packages `engine` and `tui` beside this one."""
