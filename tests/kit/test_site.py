"""The site: its pages hold the ledger, its links resolve, nothing is asked of the network, the filter filters."""

import json
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from dprepro.base import paths
from dprepro.base.store import sha256_file, sha256_tree
from dprepro.kit import claims, figures, ledger, rows, site, site_notebooks, tables
from dprepro.kit.claims import judge, judge_claim, load_reported
from dprepro.kit.headline import classes, headline
from dprepro.kit.plan import discover, plan
from dprepro.kit.site_notebooks import STATES, Source, sources

VOID = {"meta", "link", "br", "img", "input", "hr"}
CHROMIUM = shutil.which("chromium")
PRINTED = load_reported("snapaudit", "table1")
NAME = "snapaudit/table1_classification"
REASON = "<script>alert(1)</script> & 50 %"
JUDGED = [
    judge(PRINTED.iloc[0], 0.552, 0.0012, recipe="inferred", reason=REASON),
    judge(PRINTED.iloc[0], 9.0, recipe="as_stated"),
    judge(PRINTED.iloc[1], 9.0, recipe="as_stated", reason="the threshold is chosen on the same trials"),
]
CLAIM = judge_claim("snapaudit-02", "FAILS", -2.92, -3.0, -2.84, 12, "reports at 24 less those at 16")


def text_output(text: str) -> Any:
    return new_output("stream", name="stdout", text=text)


def a_notebook() -> nbformat.NotebookNode:
    png = new_output("execute_result", data={"image/png": "iVBORw0KGgo=", "text/plain": "<Image>"})
    frame = new_output(
        "execute_result", data={"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "1"}
    )
    cells = [
        new_markdown_cell(
            "# SnapAudit, table 1\n\nA bound $\\varepsilon \\le \\sqrt 2$ and $x^$\n\n$$x^2$$", id="top"
        ),
        new_markdown_cell("## Same heading", id="first"),
        new_markdown_cell("## Same heading", id="second"),
        new_code_cell("seed = 1", id="parameters"),
        new_code_cell(
            "print(inferred)", id="verdicts", outputs=[text_output(tables.printed_table(JUDGED[:1]))]
        ),
        new_code_cell("print(all)", id="recipes", outputs=[text_output(tables.side_by_side(JUDGED))]),
        new_code_cell("claims.save(rows)", id="save", outputs=[frame]),
        new_code_cell('claims.judge_claim("snapaudit-02")', id="claim"),
        new_code_cell('figures.save("snapaudit/points")', id="figure", outputs=[png]),
    ]
    return new_notebook(cells=cells)


def a_source(state: str = "executed", name: str = NAME, notebook: Any = None) -> Source:
    job = SimpleNamespace(name=name, seed=7, path=lambda ending: Path("/nowhere"), versions={"numpy": "2.0"})
    job.inputs = {"cells": "c", "lib": "l", "data": "d", "locks": "k", "versions": "v"}
    manifest = {"seconds": 1.0, "peak_memory_bytes": 2e8, "seed": 7, "notebook_sha256": "0" * 64}
    manifest["inputs"] = job.inputs | ({"lib": "older"} if state == "stale" else {})
    return Source(job, state, notebook or a_notebook(), manifest if state in ("executed", "stale") else {})  # type: ignore[arg-type]


class Page(HTMLParser):
    """Ids, links, loaded resources and unclosed tags of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.missing_alt = 0
        self.source = path.read_text()
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        found = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        elif "href" in found:
            self.loaded.append(found["href"])
        self.loaded += [
            found[name] for name in ("src", "srcset", "data", "action", "poster") if name in found
        ]
        self.missing_alt += tag == "img" and not found.get("alt")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:  # <br/>
            assert self.open.pop() == tag


class Built:
    def __init__(self, folder: Path, found: pd.DataFrame) -> None:
        self.folder, self.ledger = folder, found
        self.pages = {path.relative_to(folder).as_posix(): Page(path) for path in folder.rglob("*.html")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Build the site once from a run of two notebooks, with the printed numbers of all papers."""
    root = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPREPRO_BUILD", str(root / "build"))
        patch.setenv("DPREPRO_OUT", str(root / "out"))
        patch.setattr(paths, "FIGURES", root / "out" / "figures")
        numbers = pd.DataFrame(
            {"panel": "a_b", "series": "printed", "epsilon": [1.0, 2.0], "audited": [0.9, 1.8]}
        )
        figures.save("snapaudit/points", numbers.assign(error=0.1, ceiling=2.0), "audited_against_claimed")
        frame = pd.DataFrame(JUDGED).assign(notebook=NAME)
        found = ledger.complete([frame], claims.untouched(), rows.number_key)
        rows.write_rows(root / "build" / "ledger.csv", found, rows.LEDGER)
        said = pd.DataFrame([CLAIM]).assign(notebook=NAME)
        said = ledger.complete([said], claims.untouched_claims(), lambda frame: frame["id"])
        rows.write_rows(root / "build" / "claims.csv", said, rows.CLAIM_LEDGER)
        other = a_source("bare", "snapaudit/other", new_notebook(cells=[new_code_cell("1", id="one")]))
        patch.setattr(site_notebooks, "sources", lambda: [a_source("stale"), other])
        (root / "build" / "site").mkdir()
        (root / "build" / "site" / "old.html").write_text("of an earlier run")
        index = site.build()
        assert index == root / "build" / "site" / "index.html"
        yield Built(index.parent, claims.load_ledger())


class TestPages:
    def test_the_old_site_is_gone_and_no_part_is_left(self, built: Built) -> None:
        assert "old.html" not in built.pages
        assert not list(built.folder.rglob("*.tmp"))
        assert sorted(path.name for path in built.folder.parent.glob("*site*")) == [".site.lock", "site"]

    def test_ids_are_unique_and_tags_closed(self, built: Built) -> None:
        for name, page in built.pages.items():
            assert [i for i, n in Counter(page.ids).items() if n > 1] == [], name
            assert page.open == [], name
            assert page.missing_alt == 0, name

    def test_every_link_resolves(self, built: Built) -> None:
        count = 0
        for name, page in built.pages.items():
            for link in page.links:
                where = urlsplit(link)
                if where.scheme:
                    continue
                target = (
                    (built.folder / name).parent / unquote(where.path) if where.path else built.folder / name
                )
                assert target.resolve().is_file(), f"{name}: {link}"
                if where.fragment:
                    there = built.pages[target.resolve().relative_to(built.folder.resolve()).as_posix()]
                    assert unquote(where.fragment) in there.ids, f"{name}: {link}"
                count += 1
        assert count > 50

    def test_nothing_is_loaded_from_elsewhere(self, built: Built) -> None:
        for name, page in built.pages.items():
            for address in page.loaded:
                assert (
                    address.startswith("data:") or not urlsplit(address).netloc + urlsplit(address).scheme
                ), name
            assert "MathJax" not in page.source
        assert not re.search(r"@import|url\(|http", (built.folder / "style.css").read_text())

    def test_no_path_of_this_machine(self, built: Built) -> None:
        for path in built.folder.rglob("*"):
            if path.suffix in (".html", ".css", ".csv", ".tex", ".json"):
                assert str(built.folder.parent) not in path.read_text()
                assert str(paths.ROOT) not in path.read_text()


class TestNumbers:
    def test_a_number_for_each_in_the_ledger(self, built: Built) -> None:
        source = built.pages["index.html"].source
        attributes = re.findall(
            r'class="entry" id="([^"]+)" data-paper="([^"]+)" data-table="([^"]+)" data-found="([^"]+)"',
            source,
        )
        once = built.ledger.assign(found=classes(built.ledger))[~rows.number_key(built.ledger).duplicated()]
        assert [a[1:] for a in attributes] == [
            (row["paper"], f"{row['paper']}/{row['table']}", row["found"]) for row in once.to_dict("records")
        ]
        assert attributes[[a[1] for a in attributes].index("snapaudit")][0] == "snapaudit-table1-1"
        assert source.count('<dl class="recipe">') == len(built.ledger)

    def test_a_number_unfolds_to_its_recipes(self, built: Built) -> None:
        entry = built.pages["index.html"].source.split('id="snapaudit-table1-1"')[1].split("</details>")[0]
        assert 'data-found="EXPLAINED"' in entry
        summary, *recipes = entry.split('<dl class="recipe">')
        assert "0.58 &plusmn; 0.16" in summary
        assert "&rarr; 0.552" in summary
        assert len(recipes) == 2
        stated, inferred = recipes
        for word in ("as_stated", "FAIL", "9.000", "exact"):
            assert f"<dd>{word}</dd>" in stated
        assert "<dd>0.148 (sd of 5 runs + Monte Carlo error + rounding)</dd>" in inferred
        assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; 50 %" in inferred
        assert f'<a href="notebooks/{NAME}.html#cell-id=recipes">' in stated  # the one table that shows 9.000
        assert f'<a href="notebooks/{NAME}.html#cell-id=verdicts">' in inferred

    def test_the_strips_add_up(self, built: Built) -> None:
        source = built.pages["index.html"].source
        widths = [int(n) for n in re.findall(r"flex-grow: (\d+)", source)]
        said = [int(n) for n in re.findall(r'<li><span class="swatch[^>]*></span>(\d+) ', source)]
        assert widths == said
        assert sum(said) == headline(built.ledger)["printed"].sum() == 515
        for name in re.findall(r'class="swatch (c-[^"]+)"', source):
            assert f".{name} " in (built.folder / "style.css").read_text()

    def test_without_a_run(self, built: Built, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path))
        monkeypatch.setattr(paths, "FIGURES", tmp_path / "none")
        (tmp_path / "none").mkdir()
        monkeypatch.setattr(site_notebooks, "sources", list)
        source = site.build().read_text()
        assert "No run yet" in source
        assert "No run yet" not in built.pages["index.html"].source
        assert source.count('class="entry"') == 515


class TestOtherPages:
    def test_claims(self, built: Built) -> None:
        section = built.pages["claims.html"].source.split('id="snapaudit-02"')[1].split("</section>")[0]
        assert "effect -2.92\n[-3, -2.84], n = 12" in section
        assert f'<a href="notebooks/{NAME}.html#cell-id=claim">' in section
        assert "reports at 24 less those at 16" in section
        assert built.pages["claims.html"].source.count('class="claim"') == len(claims.load_claims())

    def test_a_notebook(self, built: Built) -> None:
        source = built.pages[f"notebooks/{NAME}.html"].source
        assert STATES["stale"] in source
        assert source.count("<math") == 2
        assert 'display="block"' in source
        assert "<code>x^</code>" in source  # no formula: shown as it was written
        assert "$" not in re.sub(r"(?s)<pre.*?</pre>", "", source)
        assert 'alt="Figure drawn by the cell figure"' in source
        assert STATES["bare"] in built.pages["notebooks/snapaudit/other.html"].source

    def test_downloads(self, built: Built) -> None:
        page = built.pages["figures.html"]
        for form in ("pdf", "png", "csv", "tex"):
            assert f"figures/snapaudit/points.{form}" in page.links
        assert f"notebooks/{NAME}.html#cell-id=figure" in page.links
        latex = (built.folder / "figures/snapaudit/points.tex").read_text()
        assert r"a\_b" in latex
        assert r"\toprule" in latex
        for name in claims.table_names():
            assert (built.folder / "tables" / f"{name}.csv").read_text() == tables.table(
                name, "csv", built.ledger
            )
            assert r"\bottomrule" in (built.folder / "tables" / f"{name}.tex").read_text()

    def test_provenance(self, built: Built) -> None:
        line = built.pages["run.html"].source.split(f"{NAME}</a>")[1].split("</tr>")[0]
        assert "<td>stale</td>" in line
        assert "lib" in line
        assert "0" * 64 in line
        assert "numpy" in built.pages["run.html"].source


class TestSources:
    def test_the_cell_that_shows_a_number(self) -> None:
        source = a_source()
        top = f"notebooks/{NAME}.html"
        assert source.showing({"AGNews", "Black-PV (Active)"}) == f"{top}#cell-id=recipes"
        assert source.showing({"AGNews", "White-PV"}) == f"{top}#cell-id=save"
        assert source.showing({"nothing"}, {"AGNews", "0.58"}) == f"{top}#cell-id=verdicts"
        assert source.mentioning("no such text") == top
        assert source.title == "SnapAudit, table 1"
        assert a_source(notebook=new_notebook()).title == NAME

    def test_executed_stale_stored_and_bare(self, house: Any) -> None:
        house.notebook("toy/a", "1 + 1")
        assert [source.state for source in sources()] == ["bare"]
        stored = nbformat.read(house.root / "notebooks/toy/a.ipynb", as_version=4)
        stored.cells[1].outputs = [text_output("2")]
        nbformat.write(stored, house.root / "notebooks/toy/a.ipynb")
        assert [source.state for source in sources()] == ["stored"]
        (job,) = plan("laptop")
        results = job.path(".out")
        (results / "figures").mkdir(parents=True)
        nbformat.write(stored, job.path(".ipynb"))
        manifest = {"outcome": "complete", "inputs": dict(job.inputs)}
        manifest["notebook_sha256"] = sha256_file(job.path(".ipynb"))
        manifest["results_sha256"] = sha256_tree(results.iterdir())
        job.path(".manifest.json").write_text(json.dumps(manifest))
        (source,) = sources()
        assert (source.state, source.figures) == ("executed", results / "figures")
        (house.root / "lib/dprepro/code.py").write_text("x = 2\n")
        assert [source.state for source in sources()] == ["stale"]


def test_the_real_notebooks_ask_nothing_of_the_network() -> None:
    """Their formulas all become MathML, and no HTML in them loads anything."""
    from latex2mathml.converter import convert

    formulas = 0
    for notebook in discover():
        content = json.loads(notebook.path.read_bytes())
        for cell in content["cells"]:
            source = "".join(cell["source"])
            html = ["".join(o.get("data", {}).get("text/html", "")) for o in cell.get("outputs", ())]
            if cell["cell_type"] == "markdown":
                html.append(source)
                for formula in re.findall(r"(?<![\\$])\$([^$]+)\$", source):
                    made = convert(formula)
                    assert "\\" not in made.partition(">")[2], f"{notebook.name}: {formula}"
                    formulas += 1
            for text in html:
                assert not re.search(
                    r"<(script|link|iframe)|\ssrc=[\"']?(http|//)|@import|url\(|!\[.*\]\(http", text
                )
    assert formulas > 200


CASES = [  # data, text, wish, wanted
    ({}, "any words", {}, True),
    ({"paper": "cape"}, "", {"paper": "cape"}, True),
    ({"paper": "cape"}, "", {"paper": "lesson"}, False),
    ({"paper": "cape", "table": "cape/table1"}, "", {"paper": "cape", "table": "cape/text"}, False),
    ({"found": "FAIL"}, "", {"found": "FAIL"}, True),
    ({"found": "FAIL"}, "agnews white-pv", {"found": "FAIL", "text": "WHITE agn"}, True),
    ({"found": "FAIL"}, "agnews white-pv", {"found": "FAIL", "text": "white trec"}, False),
    ({}, "agnews", {"text": "   "}, True),
]


def test_what_the_filter_wants() -> None:
    """The script's rule, run by the JavaScript engine that comes with playwright."""
    from playwright._impl._driver import compute_driver_executable

    script = (Path(site.__file__).parent / "templates" / "site_filter.js").read_text()
    wishes = [[d, t, {"paper": "", "table": "", "found": "", "text": "", **w}] for d, t, w, _ in CASES]
    script += f"\nconsole.log(JSON.stringify({json.dumps(wishes)}.map((c) => wanted(...c))));"
    engine = compute_driver_executable()[0]
    done = subprocess.run([engine, "-e", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [wanted for *_, wanted in CASES]


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt-get install chromium)")
def test_in_a_browser(built: Built) -> None:
    from playwright.sync_api import sync_playwright

    said: list[str] = []
    asked: list[str] = []
    base = built.folder.as_uri()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        for name in built.pages:
            page.goto(f"{base}/{name}")
            wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(wider) == 0, f"{name} is wider than a phone"
        page.goto(f"{base}/index.html#snapaudit-table1-2")
        assert page.locator("details.entry[open]").count() == 1
        shown = page.locator(".entry:visible")
        assert shown.count() == 515
        page.get_by_label("class").select_option("FAIL")
        assert shown.count() == 1
        assert page.locator("output").inner_text() == "1 of 515"
        assert page.locator("section.paper:visible").count() == 1
        page.get_by_role("searchbox").fill("chosen trials")
        assert shown.count() == 1
        page.get_by_role("searchbox").fill("no such words")
        assert shown.count() == 0
        page.get_by_role("button", name="Show all").press("Enter")
        page.wait_for_function("document.querySelector('output').value === '515 of 515'")
        page.locator("#snapaudit-table1-1 > summary").press("Enter")
        link = page.locator("#snapaudit-table1-1 a").last
        link.press("Enter")
        page.wait_for_url("**/table1_classification.html#cell-id=verdicts")
        plain = browser.new_context(java_script_enabled=False).new_page()
        plain.goto(f"{base}/index.html")
        assert plain.locator(".entry").count() == 515
        assert not plain.locator("#filter").is_visible()
        browser.close()
    assert said == []
    assert [url for url in asked if not url.startswith((base, "data:"))] == []
