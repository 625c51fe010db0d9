/** How much a proof by repetition repeats: enough for every change, far more at night (`CONCORD_PROOF=nightly`). */
export function proofSize(usual: number, nightly: number): number {
  return process.env['CONCORD_PROOF'] === 'nightly' ? nightly : usual
}
