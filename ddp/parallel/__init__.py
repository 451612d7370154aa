"""Who makes derivatives: one thread, several, or processes."""
