"""What is known exactly: the task, its transition, its optimal policy, reward and values."""
