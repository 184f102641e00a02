"""A site from a run: a start page with what was found, and every notebook as a page.

`python -m study.site runs/default` writes the folder html/ of the run; its pages load nothing from
outside. `python -m study.site runs/default lab` writes the start page alone, as a notebook into the
folder with Lab's copies. The start page names what the run lacks.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ems.analysis.findings import series
from ems.io import read_text, write_file

from . import ROOT

FILES = ["report.html", "table1.csv", "table1.md", "table1.tex", "manifest.json"]
_NAME_IN_CODE = re.compile(r'\\"([\w.-]+\.(?:csv|png))\\"')  # quoted, in the JSON of a notebook
_NAVIGATION = """
```{toctree}
:hidden:
:glob:

Start <self>
notebooks/*
```
"""
_SPHINX = {
    "extensions": ["myst_nb"],
    "include_patterns": ["index.md", "notebooks/*"],
    "html_theme": "furo",
    "html_static_path": [str(Path(__file__).parent / "page")],
    "html_css_files": ["site.css"],
    "html_copy_source": False,
    "html_show_search_summary": False,  # it is fetched, which browsers refuse to a file
    "nb_execution_mode": "off",
    "nb_ipywidgets_js": {},  # otherwise every page loads two scripts from outside
    "nb_render_markdown_format": "myst",  # which has tables
    "nb_code_prompt_show": "Code",
    "myst_all_links_external": True,  # a link stays as it is written
}


# --- the start page ---


def start_page(run: Path, notebooks: Path, page: str, files: str = ".") -> str:
    """The start page of a run as Markdown: findings, Table 1, and each notebook's figures.

    `notebooks` is the folder of the notebooks that it links, `page` the address of one, with {} for
    its name, and `files` the address of the run's folder. Of Table 1 each metric has one row, its
    F1 or its only score. Below the figures of a notebook stand the tables that it has written.
    """
    found = [
        f"# Run {run.name}: what was found",
        "The report has every answer with its points and their matches. "
        f"Files: {', '.join(_links(run, FILES, files))}",
    ]
    shown = []
    for path in sorted(notebooks.glob("*.ipynb")):
        address = page.format(path.stem)
        title = f"**[{_title(path)}]({address})**"
        sentences = _text_of(run / "findings" / f"{path.stem}.md")
        found += [title, sentences.replace("<", "&lt;")]  # a model's name is no HTML
        names = dict.fromkeys(_NAME_IN_CODE.findall(read_text(path)))
        shown.append(title)
        for link in _links(run / "figures", names, f"{files}/figures"):
            shown.append(f"[!{link}]({address})")  # an image that is a link to the notebook
        shown.append(", ".join(_links(run, names, files)))
    table = re.sub(r".* \| (?:Precision|Recall) \| .*\n", "", _text_of(run / "table1.md"))
    found += [_absences(run), "## Table 1", table, "## Figures and values"]
    return "\n\n".join(found + shown)


def _title(path: Path) -> str:
    """The title of a notebook, or its name where it has none."""
    for cell in nbformat.read(path, 4).cells:
        if cell.source.startswith("# "):
            return cell.source.splitlines()[0].removeprefix("# ")
    return path.stem


def _text_of(path: Path) -> str:
    return read_text(path) if path.is_file() else ""


def _links(folder: Path, names: Iterable[str], address: str) -> list[str]:
    """Links to those of the files that a folder has, at its address."""
    return [f"[{name}]({address}/{name})" for name in names if (folder / name).is_file()]


def _absences(run: Path) -> str:
    """A sentence about what the run lacks, or "" where it lacks nothing."""
    notebooks = [f"notebooks/{path.name}" for path in sorted(ROOT.glob("notebooks/*.ipynb"))]
    parts = [*FILES, "findings", "figures", *notebooks]
    absent = [part for part in parts if not (run / part).exists()]
    return f"This run lacks {series(absent)}." if absent else ""


# --- the site ---


def build_site(run: Path) -> Path:
    """Write the folder html/ of a run anew, and return its start page.

    What Sphinx warns of is printed.
    """
    from sphinx.application import Sphinx  # of an extra that Lab's start page does not need

    target = run / "html"
    with tempfile.TemporaryDirectory() as scratch:
        source, built = Path(scratch, "source"), Path(scratch, "html")
        shutil.copytree(run, source, ignore=shutil.ignore_patterns("html", "*.jsonl", "*.sqlite*"))
        shutil.copytree(source, built, ignore=shutil.ignore_patterns("*.ipynb", "*.png"))
        for path in source.glob("notebooks/*.ipynb"):
            nbformat.write(page_of(nbformat.read(path, 4)), path)
        page = start_page(run, source / "notebooks", "notebooks/{}.html")
        write_file(source / "index.md", [page, _NAVIGATION])
        Sphinx(
            source,
            None,
            built,
            source,
            "html",
            {**_SPHINX, "html_title": f"Run {run.name}"},
            None,
        ).build()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(built, target)
    return target / "index.html"


def page_of(notebook: NotebookNode) -> NotebookNode:
    """A notebook as a page: findings after the title, and all code but the parameters folded.

    What stood between the title and the section "Findings" becomes the last section.
    """
    cells = notebook.cells
    findings = 0
    for place, cell in enumerate(cells):
        tags = cell.metadata.setdefault("tags", [])
        if cell.cell_type == "code" and "injected-parameters" not in tags:
            tags.append("hide-input")
        if cell.source.startswith("## Findings"):
            findings = place
    if findings and cells[0].source.startswith(
        "# "
    ):  # a notebook that failed begins with its error
        heading = nbformat.v4.new_markdown_cell("## Parameters, and how this was computed")
        notebook.cells = [cells[0], *cells[findings:], heading, *cells[1:findings]]
    return notebook


# --- JupyterLab ---


def write_lab_page(run: Path, lab: Path) -> Path:
    """Write the start page of a run, which may be absent, as a notebook into Lab's folder.

    A notebook opens as it is read, but a file of Markdown as its source.
    """
    page = start_page(run, ROOT / "notebooks", "{}.ipynb", os.path.relpath(run, lab))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(page)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    return write_file(lab / "00_start.ipynb", [nbformat.writes(notebook)])


if __name__ == "__main__":
    folder, *labs = map(Path, sys.argv[1:])
    print(write_lab_page(folder, *labs) if labs else build_site(folder))
