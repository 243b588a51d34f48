"""`klm bundle`: an archive for support, without secrets.

`redaction` says what of an object is kept; `archive` is the file, bounded in size; `command` reads.
"""
