"""Airflow hooks, operators, sensors and triggers."""
