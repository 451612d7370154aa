"""Problems of systems that are no robots' files: functions of NumPy, and compositions around robots."""
