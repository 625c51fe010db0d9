/** Installs the packages that the benches compare with into a separate folder; they never become dependencies. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

export const peersFolder = join(import.meta.dirname, '../peers')

/** Their install scripts do not run; the packages contain what they need. */
export function installPeers(): void {
  if (existsSync(join(peersFolder, 'node_modules'))) return
  const words = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--no-package-lock']
  const { status } = spawnSync('npm', words, { cwd: peersFolder, stdio: 'inherit' })
  if (status !== 0) throw new Error(`The peers could not be installed into ${peersFolder}.`)
}
