// A browser and pages of the console, for the tests and the pictures.
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
