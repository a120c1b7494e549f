"""What people type, checked field by field before a service is asked."""
