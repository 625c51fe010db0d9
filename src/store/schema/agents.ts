/** `swarm_runs` and `agent_runs`, as migration 0004 makes them. */
import { integer, jsonb, numeric, text, uuid } from 'drizzle-orm/pg-core'
import type { JoinStrategy } from '#kernel/join-strategy'
import type { AgentRunState } from '#kernel/machines/agent-run'
import type { SwarmRunState } from '#kernel/machines/swarm-run'
import { at, type JsonObject } from './columns.ts'
import { concord } from './concord-schema.ts'

export const executionModes = ['sequential', 'parallel', 'competitive', 'review_driven', 'hierarchical'] as const
export type ExecutionMode = (typeof executionModes)[number]

export const swarmRuns = concord.table('swarm_runs', {
  swarmRunId: uuid('swarm_run_id').primaryKey(),
  commandId: uuid('command_id').notNull(),
  workflowRunId: uuid('workflow_run_id'),
  coordinatorAgentRunId: uuid('coordinator_agent_run_id'),
  status: text('status').$type<SwarmRunState>().notNull(),
  objective: text('objective').notNull(),
  executionMode: text('execution_mode').$type<ExecutionMode>().notNull(),
  joinStrategy: text('join_strategy').$type<JoinStrategy>().notNull(),
  maxAgents: integer('max_agents').notNull().default(5),
  maxDepth: integer('max_depth').notNull().default(2),
  maxTotalSteps: integer('max_total_steps').notNull().default(100),
  maxCostUnits: numeric('max_cost_units'),
  metadata: jsonb('metadata').$type<JsonObject>().notNull().default({}),
  createdAt: at('created_at').notNull().defaultNow(),
  startedAt: at('started_at'),
  completedAt: at('completed_at'),
  cancelledAt: at('cancelled_at'),
  workspaceId: uuid('workspace_id').notNull(),
  runAfter: at('run_after').defaultNow(),
  turnToken: uuid('turn_token'),
  turnUntil: at('turn_until'),
})

export const agentRuns = concord.table('agent_runs', {
  agentRunId: uuid('agent_run_id').primaryKey(),
  commandId: uuid('command_id').notNull(),
  swarmRunId: uuid('swarm_run_id'),
  parentAgentRunId: uuid('parent_agent_run_id'),
  agentName: text('agent_name').notNull(),
  agentRole: text('agent_role').notNull(),
  agentVersion: text('agent_version'),
  status: text('status').$type<AgentRunState>().notNull(),
  goal: text('goal').notNull(),
  allowedTools: jsonb('allowed_tools').$type<readonly string[]>().notNull().default([]),
  allowedConnectors: jsonb('allowed_connectors').$type<readonly string[]>().notNull().default([]),
  memoryScope: jsonb('memory_scope').notNull().default({}),
  contextScope: jsonb('context_scope').notNull().default({}),
  maxSteps: integer('max_steps').notNull().default(20),
  stepCount: integer('step_count').notNull().default(0),
  spawnDepth: integer('spawn_depth').notNull().default(0),
  modelConfig: jsonb('model_config').notNull().default({}),
  runtimeConfig: jsonb('runtime_config').notNull().default({}),
  metadata: jsonb('metadata').$type<JsonObject>().notNull().default({}),
  createdAt: at('created_at').notNull().defaultNow(),
  startedAt: at('started_at'),
  completedAt: at('completed_at'),
  cancelledAt: at('cancelled_at'),
  workspaceId: uuid('workspace_id').notNull(),
  runAfter: at('run_after').defaultNow(),
  turnToken: uuid('turn_token'),
  turnUntil: at('turn_until'),
})
