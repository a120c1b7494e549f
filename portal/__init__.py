"""What people and programs see; also the Django project's package."""
