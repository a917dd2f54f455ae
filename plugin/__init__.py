"""The Airflow plugin: provider info, queue provider and the page in the navigation."""
