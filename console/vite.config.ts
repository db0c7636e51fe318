// How the console is built: hashed names, nothing inline, each file compressed twice for the server to embed.
import { defineConfig, type Plugin } from "vite";

/** Writes FILE.gz and FILE.br beside each built file. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    async closeBundle() {
      const { readdir, readFile, writeFile } = await import("node:fs/promises");
      const { brotliCompressSync, gzipSync } = await import("node:zlib");
      const assets = await readdir("dist/assets");
      for (const file of ["dist/index.html", "dist/licenses.md", ...assets.map((name) => `dist/assets/${name}`)]) {
        if (/\.(gz|br)$/.test(file)) continue;
        const content = await readFile(file);
        await writeFile(`${file}.gz`, gzipSync(content, { level: 9 }));
        await writeFile(`${file}.br`, brotliCompressSync(content));
      }
    },
  };
}

export default defineConfig({
  base: "/console/",
  plugins: [compressed()],
  // An inlined asset would be a data: address, which the Content-Security-Policy refuses.
  // The licences of what is in the files go along with them.
  build: { license: { fileName: "licenses.md" }, assetsInlineLimit: 0, target: "es2022", modulePreload: { polyfill: false }, reportCompressedSize: true },
  server: { proxy: Object.fromEntries(["/api", "/ready", "/metrics", "/health"].map((path) => [path, process.env.TIDEGATE_URL ?? "http://127.0.0.1:4000"])) },
});
