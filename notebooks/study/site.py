"""A site from a run: a start page with what was found, and every notebook as a page.

`python -m study.site runs/default` writes the folder html/ of the run; its pages load nothing from
outside. `python -m study.site runs/default lab` writes the start page alone, as a notebook into the
folder with Lab's copies, where the run of these copies comes first.
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
from IPython.display import Markdown
from nbformat import NotebookNode

from ems.analysis.findings import series
from ems.io import read_text, write_file

from . import ROOT, changes_of

LAB_RUN = "runs/lab"  # what Lab's copies of the notebooks write
# The notebooks whose first findings begin the start page; the first picture is the first one's.
MAIN = ("04_scaling", "06_human_correlation", "07_sensitivity")
FILES = ["report.html", "table1.csv", "table1.md", "table1.tex", "manifest.json"]
_INTRODUCTION = (
    "EMS scores a long answer by its points: each point of a reference is matched with a point of "
    "the answer, and the pair is scored ([arXiv:2503.16575](https://arxiv.org/abs/2503.16575))."
)
# The notebooks of `MAIN` read committed texts, answers and labels.
_OF_THE_KIT = (
    "These findings are about texts, answers and labels of the kit, whichever texts a run "
    "evaluates:"
)
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
    """The start page of a run as Markdown: the main findings, Table 1, and each notebook in short.

    Changed parameters, and that a run is a rehearsal, stand under the title. `notebooks` is the
    folder of the notebooks that it links, `page` the address of one, with {} for its name, and
    `files` the address of the run's folder. A notebook is shown by its first finding, a figure and
    the tables that it has written. Of Table 1 each metric has one row, its F1 or its only score.
    Those of `FILES` that the run lacks are named.
    """
    main, picture, rest = [], [], []
    for path in sorted(notebooks.glob("*.ipynb")):
        address = page.format(path.stem)
        rest.append(f"**[{_title(path)}]({address})**")
        finding = _text_of(run / "findings" / f"{path.stem}.md").partition("\n")[0]
        finding = finding.removeprefix("- ").replace("<", "&lt;")  # a model's name is no HTML
        names = dict.fromkeys(_NAME_IN_CODE.findall(read_text(path)))
        # An image that is a link to the notebook.
        images = [
            f"[!{it}]({address})" for it in _links(run / "figures", names, f"{files}/figures")
        ]
        if path.stem == MAIN[0]:
            picture, images = images[:1], images[1:]
        if path.stem in MAIN and finding:
            main.append(f"- {finding} ([notebook {path.stem[:2]}]({address}))")
        else:
            rest.append(finding)
        rest += [*images[:1], ", ".join(_links(run, names, files))]
    if not run.exists():
        return "\n\n".join(["# No run yet: `make reproduce`", *rest])
    notes = " ".join(f"{note}." for note in changes_of(run))
    top = [f"# Run {run.name}: what was found", notes, _INTRODUCTION]
    if main:
        top += [_OF_THE_KIT, "\n".join(main)]
    top += picture
    if absent := series([name for name in FILES if not (run / name).is_file()]):
        top.append(f"This run lacks {absent}.")
    if table := _text_of(run / "table1.md"):
        top += ["## Table 1", re.sub(r".* \| (?:Precision|Recall) \| .*\n", "", table)]
    links = ", ".join(_links(run, FILES, files))
    return "\n\n".join([*top, links, "## Notebooks", *rest])


def _title(path: Path) -> str:
    """The title of a notebook, its first line."""
    first: str = nbformat.read(path, 4).cells[0].source
    return first.partition("\n")[0].removeprefix("# ")


def _text_of(path: Path) -> str:
    return read_text(path) if path.is_file() else ""


def _links(folder: Path, names: Iterable[str], address: str) -> list[str]:
    """Links to those of the files that a folder has, at its address."""
    return [f"[{name}]({address}/{name})" for name in names if (folder / name).is_file()]


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
        settings = {**_SPHINX, "html_title": f"Run {run.name}"}
        Sphinx(source, None, built, source, "html", settings, None).build()
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
    if findings:
        heading = nbformat.v4.new_markdown_cell("## Parameters, and how this was computed")
        notebook.cells = [cells[0], *cells[findings:], heading, *cells[1:findings]]
    return notebook


# --- JupyterLab ---


def lab_page(*runs: str) -> Markdown:
    """The start pages of those runs that there are; without one, links to Lab's notebooks."""
    pages = []
    for run in [run for run in runs if (ROOT / run).exists()] or runs[:1]:
        files = os.path.relpath(ROOT / run, ROOT / "lab")
        pages.append(start_page(ROOT / run, ROOT / "notebooks", "{}.ipynb", files))
    return Markdown("\n\n".join(pages))


def write_lab_page(run: Path, lab: Path) -> Path:
    """Write the start pages of Lab's run and of another into Lab's folder, as a cell's result.

    A notebook opens as it is read, but a file of Markdown as its source.
    """
    runs = (LAB_RUN, os.path.relpath(run, ROOT))
    shown = {"text/markdown": lab_page(*runs).data}
    cell = nbformat.v4.new_code_cell(
        "# Run this cell again when your notebooks have found more.\n"
        f"from study.site import lab_page\n\nlab_page{runs}",
        outputs=[nbformat.v4.new_output("display_data", shown)],
    )
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    return write_file(lab / "00_start.ipynb", [nbformat.writes(notebook)])


if __name__ == "__main__":
    folder, *labs = map(Path, sys.argv[1:])
    print(write_lab_page(folder, *labs) if labs else build_site(folder))
