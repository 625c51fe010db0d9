/** The store in one process keeps the promises of every memory store. */
import { randomUUID } from 'node:crypto'
import { openProcessStore } from '#test/process-memory-store'
import { memoryStoreCases } from './memory-store.case.ts'

memoryStoreCases('process', async () => ({
  store: openProcessStore(),
  workspaceId: randomUUID(),
  otherWorkspaceId: randomUUID(),
  close: async () => {},
}))
