"""Engines that are programs of their own: started, watched, ended with all they have started, whatever happens."""

from samepath.engines.subprocess.process import EngineProcess, ExitStatus, ask, find_program, user_folder

__all__ = ["EngineProcess", "ExitStatus", "ask", "find_program", "user_folder"]
