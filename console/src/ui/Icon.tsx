// Signs on buttons, drawn as lines: a browser without many fonts has no characters for them.
const PATHS = {
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  copy: "M6 6h7v7H6zM10 6V3H3v7h3",
};

/** A sign of 12 pixels in the colour of the text. The button around it has the name. */
export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="12" height="12" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
