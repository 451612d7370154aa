"""Motion in continuous time: its linearisation, and what contacts and sensors see of it."""
