"""Sessions of CARLA scripts: watched through a proxy, recorded, compared, and run again to find out why they part."""
