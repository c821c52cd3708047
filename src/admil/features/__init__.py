"""Pictures and text as vectors."""
