"""Typed settings and where they come from."""

from .errors import SettingsError, SettingsProblem
from .settings import Settings
from .sources import load_settings

__all__ = ["Settings", "SettingsError", "SettingsProblem", "load_settings"]
