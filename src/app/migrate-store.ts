/** Migrates the schema of this installation, or only reads its status. Opens the database for each call. */
import { accept, type Decision } from '#kernel/refusal'
import { migrateDown, migrateUp, migrationStatus } from '#store'
import type { Config } from './config.ts'
import { openLog } from './log.ts'
import { openStore } from './open-store.ts'

export type SchemaMove = { readonly go: 'up' | 'nowhere' } | { readonly go: 'down'; readonly to: number }

export type SchemaMoved = {
  readonly steps: readonly { readonly name: string; readonly direction: 'up' | 'down' }[]
  readonly version: number
  readonly applied: readonly { readonly number: number; readonly name: string; readonly appliedAt: string }[]
  readonly pending: readonly string[]
  readonly verdict: Decision<'current' | 'behind'>
}

export async function migrateStore(config: Config, move: SchemaMove): Promise<Decision<SchemaMoved>> {
  const store = await openStore(config, openLog(config.logLevel))
  if (!store.ok) return store
  try {
    const steps: SchemaMoved['steps'][number][] = []
    const onStep = (step: SchemaMoved['steps'][number]) => void steps.push(step)
    if (move.go === 'up') {
      const moved = await migrateUp(store.value.url, { onStep })
      if (!moved.ok) return moved
    }
    if (move.go === 'down') {
      const moved = await migrateDown(store.value.url, { onStep, to: move.to })
      if (!moved.ok) return moved
    }
    const status = await migrationStatus(store.value.url)
    if (!status.ok) return status
    const { version, pending, verdict } = status.value
    const applied = status.value.applied.map(({ number, name, appliedAt }) => ({
      number,
      name,
      appliedAt: appliedAt.toISOString(),
    }))
    return accept({ steps, version, applied, pending, verdict })
  } finally {
    await store.value.close()
  }
}
