/** The in-process store passes the memory suite. */
import { randomUUID } from 'node:crypto'
import { openProcessStore } from '#test/process-memory-store'
import { memoryStoreCases } from './memory-store.case.ts'

memoryStoreCases('process', async () => ({
  store: openProcessStore(),
  workspaceId: randomUUID(),
  otherWorkspaceId: randomUUID(),
  close: async () => {},
}))
