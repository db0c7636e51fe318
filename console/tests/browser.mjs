// A browser and pages of the console, for the tests and the pictures.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** Signs in on the page that is shown. */
export async function signIn(page, token) {
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
}

/** Replaces the text of the editor that is shown. */
export async function write(page, text) {
  const editor = page.locator("[data-editor] .cm-content").first();
  await editor.waitFor();
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

/** The text of the editor that is shown. */
export async function written(page) {
  return (await page.locator("[data-editor] .cm-line").allInnerTexts()).join("\n");
}

/** Waits until the editor has this text: it is drawn after what made it so. */
export async function reads(page, text, what) {
  const end = Date.now() + 5000;
  while ((await written(page)) !== text && Date.now() < end) await page.waitForTimeout(50);
  assert.equal(await written(page), text, what);
}
