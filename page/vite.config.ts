// The page is built into the Python package. Names of files have no hashes in them (the service sends ETags), so that a
// change of one file is a change of one file; sources.json says which sources they were built from.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type Plugin } from "vite";

const HERE = import.meta.dirname;
const INPUTS = ["src", "public", "index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];

function filesBelow(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap((name) => filesBelow(join(path, name)));
}

/** Writes the hashes of all sources and of all built files: tests/service/test_page_build.py compares them. */
function sourcesListed(): Plugin {
  return {
    name: "sources-listed",
    writeBundle({ dir }) {
      const sources = INPUTS.flatMap((name) => filesBelow(join(HERE, name)));
      const built = filesBelow(dir!).filter((path) => !path.endsWith("sources.json"));
      const listed = { sources: hashed(HERE, sources), built: hashed(dir!, built) };
      writeFileSync(join(dir!, "sources.json"), JSON.stringify(listed, null, 1) + "\n");
    },
  };
}

function hashed(folder: string, paths: string[]): Record<string, string> {
  const pairs = paths.map((path): [string, string] => [
    relative(folder, path).replaceAll("\\", "/"),
    createHash("sha256").update(readFileSync(path)).digest("hex"),
  ]);
  return Object.fromEntries(pairs.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The licences of all packages that went into the built files, since these are passed on. */
function licencesListed(): Plugin {
  return {
    name: "licences-listed",
    generateBundle() {
      const lock = JSON.parse(readFileSync(join(HERE, "package-lock.json"), "utf8")) as { packages: Record<string, { dev?: boolean; version?: string }> };
      const texts = Object.entries(lock.packages)
        .filter(([path, { dev }]) => path.startsWith("node_modules/") && !dev)
        .map(([path, { version }]) => {
          const name = readdirSync(join(HERE, path)).find((file) => /^licen[cs]e/i.test(file));
          if (!name) throw new Error(`${path} has no licence in it`);
          const text = readFileSync(join(HERE, path, name), "utf8").trim();
          return `${path.replace("node_modules/", "")} ${version}\n\n${text}\n`;
        });
      this.emitFile({ type: "asset", fileName: "assets/licences.txt", source: texts.sort().join(`\n${"-".repeat(80)}\n\n`) });
    },
  };
}

const names = {
  entryFileNames: "assets/[name].js",
  chunkFileNames: "assets/[name].js",
  assetFileNames: "assets/[name][extname]",
};

export default defineConfig({
  root: HERE,
  base: "./",
  publicDir: "public",
  plugins: [licencesListed(), sourcesListed()],
  worker: { format: "es", rollupOptions: { output: names } },
  build: {
    outDir: "../src/millstream/service/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // data: URLs would need a wider policy
    chunkSizeWarningLimit: 700,
    rollupOptions: { output: names },
  },
});
