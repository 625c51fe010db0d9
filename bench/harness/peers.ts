/** Installs what the benches compare with into a folder of its own; it never becomes a dependency of the package. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

export const peersFolder = join(import.meta.dirname, '../peers')

/** No scripts of theirs are run: what they need is in their packages. */
export function installPeers(): void {
  if (existsSync(join(peersFolder, 'node_modules'))) return
  const words = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--no-package-lock']
  const { status } = spawnSync('npm', words, { cwd: peersFolder, stdio: 'inherit' })
  if (status !== 0) throw new Error(`The peers could not be installed into ${peersFolder}.`)
}
