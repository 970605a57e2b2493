"""What a person asks for: the TOML file, read, checked and typed, key by key."""
