// Bundles the viewer into the Python package: one script, one sheet, one page, and the licence of what is in the script.
// The first line of the script names the digest of all sources and the library's version, so that a test can tell, without
// npm, whether the built page is that of these sources.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../../src/samepath/instrument/viewer/page");
const three = JSON.parse(readFileSync(join(here, "node_modules/three/package.json"), "utf8"));

const digest = createHash("sha256");
const sources = readdirSync(join(here, "src")).sort();
for (const name of [...sources.map(name => join("src", name)), "package-lock.json", "build.mjs"]) {
  digest.update(name.replaceAll("\\", "/")).update("\0").update(readFileSync(join(here, name))).update("\0");
}
const banner = `/* samepath view; sources ${digest.digest("hex")}; with three.js ${three.version}, MIT licence, see LICENSES.txt */`;

const made = await build({
  entryPoints: [join(here, "src/main.js")],
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022"],
  charset: "ascii",
  legalComments: "none",
  write: false,
});
mkdirSync(target, { recursive: true });
// In a page a script ends at the first "</script": no string of the bundle may hold one.
const text = made.outputFiles[0].text.replaceAll("</script", "<\\/script").trimEnd();
writeFileSync(join(target, "viewer.js"), `${banner}\n${text}\n`);
writeFileSync(join(target, "viewer.css"), readFileSync(join(here, "src/viewer.css")));
writeFileSync(join(target, "viewer.html"), readFileSync(join(here, "src/viewer.html")));
const licence = readFileSync(join(here, "node_modules/three/LICENSE"), "utf8");
writeFileSync(join(target, "LICENSES.txt"), `viewer.js contains parts of three.js ${three.version} (https://threejs.org), under this licence:\n\n${licence}`);
console.log(`${banner}\n${(text.length / 1024).toFixed(0)} KiB`);
