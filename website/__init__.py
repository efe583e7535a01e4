"""The site of the docs: what MkDocs builds of docs/, with pages that are made of the code itself."""
