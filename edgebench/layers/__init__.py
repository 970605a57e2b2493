"""A network cut into layers: weights on disk, loaders, schedules, execution."""
