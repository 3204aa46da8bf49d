// Colours of outcomes. A few get colours that are told apart without seeing red and green (Okabe and Ito); of many, a scale from
// blue to yellow over the numbers of the outcomes, the reference apart from all of them.
const FEW = {
  light: [[0, 90, 160], [213, 94, 0], [0, 130, 95], [180, 70, 130], [150, 110, 0], [40, 150, 200], [120, 60, 170], [90, 90, 90]],
  dark: [[110, 185, 255], [255, 150, 70], [70, 210, 165], [235, 140, 195], [240, 200, 70], [130, 220, 245], [190, 150, 250], [190, 190, 190]],
};
// Corners of a scale of even steps (viridis, without its darkest part).
const SCALE = [[72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [240, 228, 66]];

export function colourOf(number, count, theme) {
  const few = FEW[theme];
  if (count <= few.length || number === 0) return few[number % few.length];
  const at = ((number - 1) / Math.max(1, count - 2)) * (SCALE.length - 1), low = Math.min(SCALE.length - 2, Math.floor(at));
  return SCALE[low].map((part, index) => Math.round(part + (SCALE[low + 1][index] - part) * (at - low)));
}
