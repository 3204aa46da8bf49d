"""The CARLA 0.9.16 wire protocol over our world."""
