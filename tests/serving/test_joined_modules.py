"""Modules as one script: each form, each refusal, and the page's own modules."""

import shutil
import subprocess

import pytest

from headwise.serving.joined_modules import joined_modules

MODULES = {
    "main.js": 'import { twice, NAME as name } from "./lib/math.js";\n'
    'import {\n  shout,\n} from "./text.js";\n'
    "console.log(shout(`${name} ${twice(21)}`), typeof twice, new Error().stack);\n",
    "lib/math.js": 'import { shout } from "../text.js";\n'
    'export const NAME = shout("n");\nlet count = 0;\n'
    "export function twice(x) {\n  count += 1;\n  return 2 * x;\n}\n"
    "export async function later() {}\nexport class Empty {}\n"
    "export function* counted() { yield count; }\n",
    "text.js": "let calls = 0;\nexport function shout(text) {\n  calls += 1;\n"
    "  return `${text}!${calls}`;\n}\n",
}


def test_each_module_runs_once_after_what_it_imports():
    script = joined_modules("main.js", MODULES.__getitem__)

    order = [
        script.index(f'joinedModules["{name}"] =')
        for name in ("text.js", "lib/math.js", "main.js")
    ]
    assert order == sorted(order)
    assert script.count('joinedModules["text.js"] =') == 1
    assert "import " not in script
    assert "export " not in script
    assert "return { NAME, twice, later, Empty, counted };" in script


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_script_does_what_the_modules_do(tmp_path):
    for path, text in MODULES.items():
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    joined = tmp_path / "joined.cjs"
    script = joined_modules("main.js", MODULES.__getitem__)
    joined.write_text(script, encoding="utf-8")

    outputs = [
        subprocess.run(
            ["node", tmp_path / name], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
        for name in ("main.js", "joined.cjs")
    ]

    assert outputs[0].startswith("n!1 42!2 function")
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    "line",
    [
        'import name from "./a.js";',
        'import * as a from "./a.js";',
        'import "./a.js";',
        'import { a } from "https://example.org/a.js";',
        'export { a } from "./a.js";',
        "export default 3;",
        "export let a = 3;",
        'const a = await import("./a.js");',
        "const a = import.meta.url;",
    ],
)
def test_other_forms_are_refused(line):
    modules = {"main.js": f"// a comment\n{line}\n", "a.js": "export const a = 1;\n"}

    with pytest.raises(ValueError, match=r"main\.js: .* cannot be joined"):
        joined_modules("main.js", modules.__getitem__)


def test_circles_are_refused():
    modules = {
        "main.js": 'import { a } from "./a.js";\n',
        "a.js": 'import { b } from "./b.js";\nexport const a = 1;\n',
        "b.js": 'import { a } from "./a.js";\nexport const b = 1;\n',
    }

    with pytest.raises(ValueError, match=r"in a circle: main\.js, a\.js, b\.js, a\.js"):
        joined_modules("main.js", modules.__getitem__)
