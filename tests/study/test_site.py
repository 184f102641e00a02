"""A site from a run: what the start page says and links, and what a browser sees of the pages."""

import json
import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from importlib.util import find_spec

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from study import site

TABLE1 = """\
| metric | part | Small | n |
| --- | --- | ---: | ---: |
| BLEU | Score | 0.100 | 5 |
| EMS(LLM) | Precision | 0.200 | 5 |
| EMS(LLM) | Recall | 0.300 | 5 |
| EMS(LLM) | F1 | 0.240 | 5 |

- n: answers with a value.
- Changed from the profile: LIMIT 5 (notebook 01)
"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def builds_pages(test):
    """Marks a slow test that makes pages; it is skipped where Sphinx is not installed."""
    absent = find_spec("myst_nb") is None or find_spec("furo") is None
    return pytest.mark.slow(pytest.mark.skipif(absent, reason="needs pip install '.[html]'")(test))


def notebook(injected=True):
    """A notebook as papermill leaves it: a text and a table as results, and a widget."""
    code = 'study.write_csv(run / "values.csv", values)\nfigures / "dots.png"'
    sentence = new_output("execute_result", {"text/markdown": "- It costs $5 to $6.\n"})
    link = new_output(
        "execute_result",
        {"text/markdown": "[Open it](../report.html)\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"},
    )
    cells = [
        new_markdown_cell("# 3. Extract, match, score\n\nWhat it asks."),
        new_code_cell("LIMIT = 0", metadata={"tags": ["parameters"]}),
        new_code_cell("# Parameters\nLIMIT = 5", metadata={"tags": ["injected-parameters"]}),
        new_code_cell(code),
        new_markdown_cell("## Findings\n\nWhat is clear."),
        new_code_cell("show_findings()", outputs=[sentence]),
        new_markdown_cell("## Details"),
        new_code_cell("details", outputs=[link]),
    ]
    if not injected:
        del cells[2]
    model = {
        "model_name": "DropdownModel",
        "model_module": "@jupyter-widgets/controls",
        "state": {},
    }
    state = {"version_major": 2, "version_minor": 0, "state": {"1": model}}
    metadata = {
        "language_info": {"name": "python"},
        "widgets": {"application/vnd.jupyter.widget-state+json": state},  # of a selector
    }
    return new_notebook(cells=cells, metadata=metadata)


def run_in(project):
    """A run of a project with two notebooks, of which one was run."""
    run = project / "runs" / "small"
    for folder in (project / "notebooks", run / "notebooks", run / "findings", run / "figures"):
        folder.mkdir(parents=True)
    nbformat.write(notebook(injected=False), project / "notebooks" / "03_ems.ipynb")
    other = new_notebook(cells=[new_markdown_cell("# 4. Sizes")])
    nbformat.write(other, project / "notebooks" / "04_scaling.ipynb")
    nbformat.write(notebook(), run / "notebooks" / "03_ems.ipynb")
    (run / "findings" / "03_ems.md").write_text("- <b>Large</b> > Small.\n- It costs $5 to $6.\n")
    (run / "figures" / "dots.png").write_bytes(b64decode(PIXEL))
    (run / "values.csv").write_text("value\n0.1\n")
    (run / "table1.md").write_text(TABLE1)
    for name in ("table1.csv", "table1.tex", "replies.sqlite", "answers.jsonl"):
        (run / name).write_text(name)
    (run / "manifest.json").write_text("{}")
    (run / "report.html").write_text("<title>Report</title>")
    return run


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "ROOT", tmp_path)
    return run_in(tmp_path)


# --- the start page ---


def test_the_start_page_says_what_was_found_and_links_the_rest(run):
    page = site.start_page(run, run / "notebooks", "notebooks/{}.html")
    introduction, rest = page.split("## Table 1\n\n")
    assert introduction.startswith(
        "# Run small: what was found\n\n\n\nEMS scores a long answer by its"
    )
    assert introduction.endswith("2503.16575)).\n\n")
    assert rest == (
        "| metric | part | Small | n |\n| --- | --- | ---: | ---: |\n"
        "| BLEU | Score | 0.100 | 5 |\n| EMS(LLM) | F1 | 0.240 | 5 |\n\n"
        "- n: answers with a value.\n- Changed from the profile: LIMIT 5 (notebook 01)\n\n\n"
        "[report.html](./report.html), [table1.csv](./table1.csv), [table1.md](./table1.md), "
        "[table1.tex](./table1.tex), [manifest.json](./manifest.json)\n\n"
        "## Notebooks\n\n"
        "**[3. Extract, match, score](notebooks/03_ems.html)**\n\n"
        "&lt;b>Large&lt;/b> > Small.\n\n"
        "[![dots.png](./figures/dots.png)](notebooks/03_ems.html)\n\n"
        "[values.csv](./values.csv)"
    )


def test_the_main_findings_and_the_first_picture_of_them_stand_first_and_only_there(run):
    cells = [new_markdown_cell("# 4. Sizes"), new_code_cell('"pairs.png" "sizes.png" "more.png"')]
    nbformat.write(new_notebook(cells=cells), run / "notebooks" / "04_scaling.ipynb")
    (run / "findings" / "04_scaling.md").write_text("- It rises.\n- It rises twice.\n")
    for name in ("pairs.png", "sizes.png", "more.png"):
        shutil.copy(run / "figures" / "dots.png", run / "figures" / name)
    page = site.start_page(run, run / "notebooks", "{}.html")
    top, below = page.split("## Table 1")
    assert "whichever texts a run evaluates:\n\n- It rises. ([notebook 04](04_s" in top
    assert "04_scaling.html))\n\n[![pairs.png](./f" in top
    assert top.count("[![") == 1
    assert "**[4. Sizes](04_scaling.html)**" in below
    assert "[![sizes.png]" in below
    for absent in ("It rises", "pairs.png", "more.png"):
        assert absent not in below
    (run / "findings" / "04_scaling.md").unlink()
    assert "([notebook 04]" not in site.start_page(run, run / "notebooks", "{}.html")


def test_what_a_run_lacks_is_named_and_not_linked(run):
    shutil.rmtree(run / "figures")
    shutil.rmtree(run / "findings")
    for name in ("report.html", "table1.md"):
        (run / name).unlink()
    page = site.start_page(run, run / "notebooks", "notebooks/{}.html")
    assert "This run lacks report.html and table1.md." in page
    assert "## Table 1" not in page
    assert "](./report.html)" not in page
    assert "](./table1.md)" not in page
    assert "dots.png" not in page
    assert "[values.csv](./values.csv)" in page


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        (
            {"01_dataset": {"MODELS": ["m"]}},
            "Changed from the profile: MODELS ['m'] (notebook 01).\n",
        ),
        (
            {"01_dataset": {"LIMIT": 1}, "03_ems": {"--at": "http://127.0.0.1:1/v1", "LIMIT": 1}},
            "A rehearsal: the values mean nothing. Changed from the profile: LIMIT 1 (notebook 01, "
            "03). Changed from the profile: --at 'http://127.0.0.1:1/v1' (notebook 03).\n",
        ),
    ],
    ids=["another parameter", "a rehearsal"],
)
def test_the_first_line_names_what_was_changed(run, changed, first):
    (run / "manifest.json").write_text(json.dumps({"changed": changed}))
    page = site.start_page(run, run / "notebooks", "notebooks/{}.html")
    assert page.startswith(f"# Run small: what was found\n\n{first}\n")


def test_labs_start_page_links_labs_copies_and_the_runs_files(run, tmp_path):
    lab = tmp_path / "lab"
    path = site.write_lab_page(run, lab)
    assert path == lab / "00_start.ipynb"
    start = nbformat.read(path, 4)
    nbformat.validate(start)
    assert start.metadata.kernelspec.name == "python3"  # else Lab asks for a kernel
    text = shown_in(path)
    assert text.count("what was found") == 1  # Lab's notebooks have not been run
    for title, address in (
        ("3. Extract, match, score", "03_ems.ipynb"),
        ("4. Sizes", "04_scaling.ipynb"),
        ("values.csv", "../runs/small/values.csv"),
        ("report.html", "../runs/small/report.html"),
    ):
        assert f"[{title}]({address})" in text
    assert "[![dots.png](../runs/small/figures/dots.png)](03_ems.ipynb)" in text


def shown_in(path):
    """The Markdown that the only cell of a start page shows; the cell shows it again when run."""
    (cell,) = nbformat.read(path, 4).cells
    (output,) = cell.outputs
    names = {}
    exec(cell.source.replace("lab_page(", "page = lab_page("), names)
    assert names["page"].data == output.data["text/markdown"]
    return output.data["text/markdown"]


def test_labs_start_page_begins_with_what_labs_own_run_found(run, tmp_path):
    shutil.copytree(run, tmp_path / "runs" / "lab", ignore=shutil.ignore_patterns("notebooks"))
    (tmp_path / "runs" / "lab" / "findings" / "03_ems.md").write_text("- Mine is best.\n")
    text = shown_in(site.write_lab_page(run, tmp_path / "lab"))
    own, other = text.split("# Run small: what was found")
    assert own.startswith("# Run lab: what was found\n")
    assert "Mine is best." in own
    assert "](../runs/lab/figures/dots.png)" in own
    assert "Large" in other


def test_lab_greets_without_a_run(tmp_path, run):
    path = site.write_lab_page(tmp_path / "runs" / "none", tmp_path / "lab")
    text = shown_in(path)
    assert "[4. Sizes](04_scaling.ipynb)" in text
    assert text.startswith("# No run yet: `make reproduce`\n")
    assert "lacks" not in text


# --- pages of notebooks ---


def test_a_page_begins_with_the_findings_and_folds_code():
    page = site.page_of(notebook())
    nbformat.validate(page)
    shown = [(c.source.partition("\n")[0], c.metadata.get("tags", [])) for c in page.cells]
    assert shown == [
        ("# 3. Extract, match, score", []),
        ("## Findings", []),
        ("show_findings()", ["hide-input"]),
        ("## Details", []),
        ("details", ["hide-input"]),
        ("## Parameters, and how this was computed", []),
        ("LIMIT = 0", ["parameters", "hide-input"]),
        ("# Parameters", ["injected-parameters"]),
        ('study.write_csv(run / "values.csv", values)', ["hide-input"]),
    ]


# --- the site ---


def built(run):
    """The site of a run, made in a process of its own, since Sphinx is set up once in a process.

    Returns its folder and what was warned of.
    """
    code = "import sys, pathlib; from study import site; site.ROOT = pathlib.Path(sys.argv[1]); "
    code += "print(site.build_site(pathlib.Path(sys.argv[2])))"
    command = [sys.executable, "-c", code, str(run.parents[1]), str(run)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert made.stdout == f"{run / 'html' / 'index.html'}\n", made.stderr
    return run / "html", made.stderr


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder, warnings = built(run_in(tmp_path_factory.mktemp("project")))
    assert warnings == ""
    return folder


def addresses(page):
    """What a page loads, and what it links."""
    loaded = re.findall(r'<(?:script|img|link)[^>]*?(?:src|href)="([^"]*)"', page)
    linked = re.findall(r'<a [^>]*?href="([^"]*)"', page)
    return loaded, linked


@builds_pages
def test_pages_load_nothing_from_outside_and_every_link_leads_somewhere(pages):
    for name in ("index.html", "notebooks/03_ems.html", "search.html"):
        page = (pages / name).read_text(encoding="utf-8")
        loaded, linked = addresses(page)
        assert loaded
        linked = [address for address in linked if not address.startswith("https:")]
        for address in loaded + linked:
            if address.startswith("#"):
                continue
            path = re.sub(r"[?#].*", "", address)
            assert ((pages / name).parent / path).is_file(), (name, address)
        assert "MathJax" not in page
    for style in pages.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(?:https?:)?//", style.read_text("utf-8")), style


@builds_pages
def test_a_site_holds_tables_and_the_report_but_neither_replies_nor_texts(pages):
    for name in ("values.csv", "table1.tex", "manifest.json", "report.html"):
        assert (pages / name).read_bytes() == (pages.parent / name).read_bytes()
    assert not list(pages.rglob("*.sqlite"))
    assert not list(pages.rglob("*.jsonl"))
    assert sorted(path.name for path in pages.parent.iterdir()) == [
        "answers.jsonl",
        "figures",
        "findings",
        "html",
        "manifest.json",
        "notebooks",
        "replies.sqlite",
        "report.html",
        "table1.csv",
        "table1.md",
        "table1.tex",
        "values.csv",
    ]


@builds_pages
def test_a_site_is_made_anew_and_without_what_the_run_lacks(run):
    (run / "html").mkdir()
    (run / "html" / "old.html").write_text("old")
    shutil.rmtree(run / "figures")
    shutil.rmtree(run / "notebooks")
    (run / "notebooks").mkdir()
    (run / "table1.tex").unlink()
    built(run)
    assert not (run / "html" / "old.html").exists()
    page = (run / "html" / "index.html").read_text(encoding="utf-8")
    assert "This run lacks table1.tex." in page


@pytest.fixture
def drawn(pages, tmp_path):
    """A function: what a browser without a network makes of a page; it may complain of nothing."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no browser here")
    command = [browser, *"--headless --no-sandbox --disable-gpu --dump-dom".split()]
    command += ["--virtual-time-budget=5000", "--enable-logging=stderr"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path}"]

    def page_at(address):
        shown = subprocess.run(
            [*command, f"file://{pages}/{address}"], capture_output=True, text=True, timeout=60
        )
        if "<html" not in shown.stdout:
            pytest.skip("the browser does not start here")
        assert "CONSOLE" not in shown.stderr
        return shown.stdout

    return page_at


@builds_pages
def test_a_browser_shows_what_was_found_and_finds_words(drawn):
    page = drawn("notebooks/03_ems.html")
    found, details, computed = (page.index(f"<h2>{t}") for t in ("Findings", "Details", "Param"))
    assert found < page.index("<li><p>It costs $5 to $6.</p></li>") < details < computed
    assert '<a class="reference external" href="../report.html">Open it</a>' in page
    assert page.index("<td><p>2</p></td>") > details  # a table of Markdown
    start = drawn("index.html")
    assert "<p>&lt;b&gt;Large&lt;/b&gt; &gt; Small.</p>" in start
    assert 'href="notebooks/03_ems.html"' in start
    assert '<a href="notebooks/03_ems.html"' in drawn("search.html?q=extract")


@builds_pages
def test_a_browser_shows_the_parameters_of_the_run_alone(pages, drawn):
    page = (pages / "notebooks" / "03_ems.html").read_text(encoding="utf-8")
    of_cells = "[...document.querySelectorAll('.cell')].map(e => e.checkVisibility())"
    script = f"<script>document.title = 'visible ' + {of_cells}</script></body>"
    copy = pages / "notebooks" / "copy.html"
    copy.write_text(page.replace("</body>", script), encoding="utf-8")
    # Findings, details, the defaults, the run's parameters, the rest of the code.
    assert "<title>visible true,true,false,true,true</title>" in drawn("notebooks/copy.html")
    parameters = page[page.index("tag_injected-parameters") :]
    assert parameters.index("LIMIT") < parameters.index("<details")  # not folded
