/** The tables of the schema `identity`, as the migrations 0002 and 0008 make them. */
import { boolean, jsonb, pgSchema, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { at, bytea, type JsonObject } from './columns.ts'

export const identity = pgSchema('identity')

export const platformRoles = ['reader', 'writer', 'admin'] as const
export type PlatformRole = (typeof platformRoles)[number]

export const orgs = identity.table('orgs', {
  id: uuid('id').primaryKey().defaultRandom(),
  name: text('name').notNull(),
  slug: text('slug').notNull(),
  settings: jsonb('settings').$type<JsonObject>().notNull().default({}),
  createdAt: at('created_at').notNull().defaultNow(),
})

export const users = identity.table('users', {
  id: uuid('id').primaryKey().defaultRandom(),
  orgId: uuid('org_id').notNull(),
  externalId: text('external_id').notNull(),
  email: text('email'),
  role: text('role').$type<PlatformRole>().notNull(),
  createdAt: at('created_at').notNull().defaultNow(),
  deactivatedAt: at('deactivated_at'),
})

export const orgRoles = identity.table('org_roles', {
  id: uuid('id').primaryKey().defaultRandom(),
  orgId: uuid('org_id').notNull(),
  slug: text('slug').notNull(),
  name: text('name').notNull(),
  createdAt: at('created_at').notNull().defaultNow(),
})

export const orgRoleMemberships = identity.table(
  'org_role_memberships',
  {
    roleId: uuid('role_id').notNull(),
    userId: uuid('user_id').notNull(),
    createdAt: at('created_at').notNull().defaultNow(),
    /** The org of both; the composite keys hold them together. */
    orgId: uuid('org_id').notNull(),
  },
  (table) => [primaryKey({ columns: [table.roleId, table.userId] })],
)

export const workspaces = identity.table('workspaces', {
  id: uuid('id').primaryKey().defaultRandom(),
  orgId: uuid('org_id').notNull(),
  slug: text('slug').notNull(),
  name: text('name').notNull(),
  ownerUserId: uuid('owner_user_id'),
  accessRoleId: uuid('access_role_id'),
  createdAt: at('created_at').notNull().defaultNow(),
  archivedAt: at('archived_at'),
})

export const apiKeys = identity.table('api_keys', {
  id: uuid('id').primaryKey().defaultRandom(),
  orgId: uuid('org_id').notNull(),
  userId: uuid('user_id').notNull(),
  workspaceId: uuid('workspace_id'),
  name: text('name').notNull(),
  prefix: text('prefix').notNull(),
  keyHash: bytea('key_hash').notNull(),
  role: text('role').$type<PlatformRole>().notNull(),
  createdAt: at('created_at').notNull().defaultNow(),
  expiresAt: at('expires_at'),
  revokedAt: at('revoked_at'),
  lastUsedAt: at('last_used_at'),
  isInvitation: boolean('is_invitation').notNull().default(false),
})
