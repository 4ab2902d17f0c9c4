// How the page is built: file names without hashes, nothing inlined and no polyfill, so that the same sources give the
// same bytes everywhere and every byte is one that the server's content security policy lets run.
import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react(), tailwind()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 800,
    rollupOptions: {
      // What checks bundles and what applies events keep the names that they export, so that tests hold the one to
      // `norma-verify` and the other to the server.
      input: { index: "index.html", verify: "src/verify/index.ts", apply: "src/api/apply.ts" },
      preserveEntrySignatures: "strict",
      output: {
        entryFileNames: "a/[name].js",
        chunkFileNames: "a/[name].js",
        assetFileNames: "a/[name][extname]",
      },
    },
  },
});
