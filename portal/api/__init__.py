"""What programs talk to, under /api/v1/."""
