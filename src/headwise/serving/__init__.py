"""Pages over HTTP, and the same pages as files; Starlette is an extra."""
