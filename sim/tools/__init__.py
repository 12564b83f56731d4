"""Tools: what agents can use beside the actions of the world."""
