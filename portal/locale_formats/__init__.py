"""What Django itself may write in each language: everything as files and form fields need it.

Browsers send and want dates as 2026-07-02 in any language, and styles want a point; what people read is written by
portal/formats.py.
"""
