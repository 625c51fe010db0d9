/** The version of this program, read from its package once. */
import { readFileSync } from 'node:fs'

/** `package.json` is two folders up from both `src/app` and `dist/app`. */
const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }

export const version: string = manifest.version
