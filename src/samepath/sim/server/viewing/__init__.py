"""What can be seen after a tick, what is to be measured of it, and who measures: plain data in, payloads out.

A :class:`View` and an :class:`Order` hold everything a measurement depends on, so that it may be made in this process or in
another, once or twice, with the same bytes.
"""
