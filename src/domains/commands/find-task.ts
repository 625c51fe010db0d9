/** The task that somebody means: by its name, or by its command type where only one task runs it. Pure. */
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'

export function findTask({ tasks }: Pick<Catalog, 'tasks'>, named: string): CompiledTask | undefined {
  const own = tasks.get(named)
  if (own) return own
  const [only, ...others] = [...tasks.values()].filter(({ type }) => type.name === named)
  return others.length === 0 ? only : undefined
}
