"""Pictures of what heads share: keys and values, a cache, and devices."""
