"""Leave references such as [1]_ out of the tables of the API reference, where they lead nowhere."""

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.ext.autosummary import autosummary_table


def remove_citations(app, doctree):
    for table in doctree.findall(autosummary_table):
        for reference in list(table.findall(pending_xref)):
            if reference.get("refdomain") == "citation":
                before = reference.parent[reference.parent.index(reference) - 1]
                if isinstance(before, nodes.Text):
                    before.parent.replace(before, nodes.Text(before.rstrip()))
                reference.parent.remove(reference)


def setup(app):
    app.connect("doctree-read", remove_citations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
