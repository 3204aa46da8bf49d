"""The thesis' measurements: episodes with rising numbers of moving vehicles with one camera each, over numbers of nodes.

A measuring client drives the vehicles, listens to every camera through the node that it belongs to, and asks the main server
what the steps took. Who decides and listens is apart from what is measured.
"""
