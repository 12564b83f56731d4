"""The edge: drives a kernel inside an asyncio or trio program, in real time, and carries out effects."""
