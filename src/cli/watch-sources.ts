/** Watches the source files of a folder: code, JSON and YAML, without tests, packages and hidden folders. */
import { type FSWatcher, readdirSync, type Stats, statSync, watch } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { setTimeout } from 'node:timers/promises'

const SOURCE = /\.(?:[cm]?[jt]s|json|ya?ml|sql)$/
const TEST = /\.test\.\w+$/
/** An editor writes a file in several steps. */
const QUIET_MS = 30

export type Sources = {
  /** Resolves with a file that has changed since the last call, now or later. */
  changed(): Promise<{ readonly file: string }>
  close(): void
}

/** Watches each folder by itself, because a recursive watch would also read `node_modules`. */
export function watchSources(root: string, except: readonly string[]): Sources {
  const watchers = new Map<string, FSWatcher>()
  let pending: string | undefined
  let wake = () => {}

  function add(folder: string): void {
    const name = basename(folder)
    const isHidden = folder !== root && (name.startsWith('.') || name === 'node_modules')
    if (isHidden || except.includes(folder) || watchers.has(folder)) return
    try {
      const watcher = watch(folder, (_event, changed) => see(folder, changed ?? ''))
      watchers.set(folder, watcher)
      watcher.on('error', () => remove(folder))
      for (const entry of readdirSync(folder, { withFileTypes: true }))
        if (entry.isDirectory()) add(join(folder, entry.name))
    } catch (error) {
      // Another folder was removed meanwhile, or is not readable.
      remove(folder)
      if (folder === root) throw error
    }
  }

  function remove(folder: string): void {
    watchers.get(folder)?.close()
    watchers.delete(folder)
  }

  function see(folder: string, name: string): void {
    const path = join(folder, name)
    const found = find(path)
    if (!found) remove(path)
    if (found?.isDirectory()) add(path)
    if (!found?.isDirectory() && (name.startsWith('.') || !SOURCE.test(name) || TEST.test(name))) return
    pending ??= relative(root, path)
    wake()
  }

  add(root)
  return {
    async changed() {
      if (pending === undefined) await new Promise<void>((resolve) => (wake = resolve))
      await setTimeout(QUIET_MS)
      const file = pending ?? '.'
      pending = undefined
      return { file }
    },
    close() {
      for (const folder of watchers.keys()) remove(folder)
    },
  }
}

function find(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    // It was removed, or it is a link to itself.
    return undefined
  }
}
